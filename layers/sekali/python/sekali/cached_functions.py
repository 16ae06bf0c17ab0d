"""Cache what a function returns, under a key made of its name and its arguments.

::

    @cached(ttl_seconds=300, tags=["flights:{month}"])
    def flights_of(month: str) -> Month: ...

    flights_of("2013-01")                       # loaded once by the fleet
    flights_of.invalidate("2013-01")            # that call's value, everywhere
    flights_of.key_for("2013-01")               # for `explain`
    flights_of.__wrapped__("2013-01")           # past the cache

The key holds module, qualified name and typed arguments (see `argument_keys`), so two functions or
two methods never share a value. A function defined inside another one has no name of its own that
two calls of the outer one could be told apart by: give it one by `name`.

`async def` functions are awaited on the running loop. The decorator stands below `@classmethod`,
`@staticmethod` and `@property`.
"""

from __future__ import annotations

import functools
import inspect
import re
import string
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast

from sekali.argument_keys import text_of
from sekali.caching import current_cache
from sekali.calls import call_of, tags_of
from sekali.errors import KeyInvalid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from sekali.tiered import Tiered

P = ParamSpec("P")
R = TypeVar("R")


class Cached(Generic[P, R]):
    """A function whose results are cached. `__wrapped__` is the function itself."""

    def __init__(
        self,
        function: Callable[P, R],
        *,
        name: str | None,
        key: str | Callable[P, str] | None,
        tags: Iterable[str] | Callable[P, Iterable[str]],
        cache: Callable[[], Tiered],
        options: Mapping[str, Any],  # Any: options of `look_up`
    ) -> None:
        functools.update_wrapper(cast("Any", self), function)  # Any: it takes more than functions
        self.__wrapped__ = function
        self._name = name or _name_of(function)
        self._signature = inspect.signature(function)
        self._key = key
        self._tags = tags if callable(tags) else tags_of(tags)
        self._check_templates()
        self._cache = cache
        self._options = options
        called = getattr(function, "__call__", None)  # noqa: B004 - an object whose call is async
        self._is_async = any(map(inspect.iscoroutinefunction, (function, called)))

    def __repr__(self) -> str:
        """Say which function it is."""
        return f"<cached {self._name}>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Return the cached result of this call, or compute it."""
        load: Any = functools.partial(self.__wrapped__, *args, **kwargs)  # Any: sync or not
        options = {**self._options, "tags": self.tags_for(*args, **kwargs)}
        key = self.key_for(*args, **kwargs)
        if self._is_async:
            coroutine: Any = self._cache().get_or_load_async(key, load, **options)
            return cast("R", coroutine)
        return cast("R", self._cache().get_or_load(key, load, **options))

    def __get__(self, instance: object, owner: type | None = None) -> Any:  # Any: bound or not
        """Bind to an instance, as functions do: it becomes the first argument."""
        if instance is None:
            return self
        return _Bound(self, instance)

    def key_for(self, *args: P.args, **kwargs: P.kwargs) -> str:
        """Return the cache key of this call.

        Raises:
            KeyInvalid: an argument has no text that stands for it.
        """
        if self._key is None:
            return f"{self._name}({text_of(self._arguments(*args, **kwargs))})"
        if isinstance(self._key, str):
            return f"{self._name}/{self._key.format_map(self._arguments(*args, **kwargs))}"
        return f"{self._name}/{self._key(*args, **kwargs)}"

    def tags_for(self, *args: P.args, **kwargs: P.kwargs) -> tuple[str, ...]:
        """Return the tags of this call's value.

        Raises:
            KeyInvalid: one of them is no text.
        """
        if callable(self._tags):
            return tags_of(self._tags(*args, **kwargs))
        if not self._tags:
            return ()
        arguments = self._arguments(*args, **kwargs)
        return tuple(tag.format_map(arguments) for tag in self._tags)

    def invalidate(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Drop the value of this call in every container.

        Raises:
            SharedUnavailable: it is not known to have reached them all; do it again.
        """
        self._cache().invalidate([self.key_for(*args, **kwargs)])

    def _arguments(self, *args: P.args, **kwargs: P.kwargs) -> dict[str, Any]:
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return dict(bound.arguments)

    def _check_templates(self) -> None:
        """Refuse a template that names no argument, before the first call meets it.

        Raises:
            KeyInvalid: there is such a one.
        """
        templates = () if callable(self._tags) else self._tags
        if isinstance(self._key, str):
            templates += (self._key,)
        for template in templates:
            for _, field, _, _ in string.Formatter().parse(template):
                named = None if field is None else re.split(r"[.\[]", field)[0]
                if named is not None and named not in self._signature.parameters:
                    rule = f"must name arguments of {self._name} only"
                    raise KeyInvalid("template", rule, template)


class _Bound:
    """A cached method together with its object."""

    def __init__(self, function: Cached[..., Any], instance: object) -> None:
        self.__self__ = instance
        self.__func__ = function
        self.__wrapped__ = functools.partial(function.__wrapped__, instance)
        self.__doc__ = function.__doc__

    def __getattr__(self, name: str) -> Any:  # Any: name, module, documentation of the function
        """Be the function in everything else."""
        return getattr(self.__func__, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # Any: as the method
        return self.__func__(self.__self__, *args, **kwargs)

    def key_for(self, *args: Any, **kwargs: Any) -> str:  # Any: as the method
        return self.__func__.key_for(self.__self__, *args, **kwargs)

    def tags_for(self, *args: Any, **kwargs: Any) -> tuple[str, ...]:  # Any: as the method
        return self.__func__.tags_for(self.__self__, *args, **kwargs)

    def invalidate(self, *args: Any, **kwargs: Any) -> None:  # Any: as the method
        self.__func__.invalidate(self.__self__, *args, **kwargs)


def cached(
    *,
    ttl_seconds: float | None = None,
    tags: Iterable[str] | Callable[..., Iterable[str]] = (),
    key: str | Callable[..., str] | None = None,
    name: str | None = None,
    cache: Callable[[], Tiered] = current_cache,
    **options: Any,  # Any: the options of `Tiered.look_up`
) -> Callable[[Callable[P, R]], Cached[P, R]]:
    """Cache the decorated function's results in both tiers.

    Args:
        ttl_seconds: hard TTL; None is the default, 0 does not store.
        tags: templates over the arguments by their names, or a function of the arguments.
        key: what stands for the arguments in the key, in place of all of them: a template over them
            by their names, or a function of them. It has to tell apart whatever is not one value.
        name: stands for module and qualified name; needed where the function has no name of its
            own, and useful to keep values when it moves.
        cache: returns the tiers; those of the invocation under way unless given.
        options: as in `look_up`.

    Raises:
        KeyInvalid: the function has no name that is its own, or a template names no argument.
        SettingInvalid: a TTL is negative, or a word is none of those of `look_up`.
        TypeError: there is no such option, or the function is a generator.
    """
    call_of("checked here, before the first call", object, ttl_seconds=ttl_seconds, **options)

    def decorate(function: Callable[P, R]) -> Cached[P, R]:
        called = getattr(function, "__call__", None)  # noqa: B004 - an object that is a generator
        if any(map(_is_generator, (function, called))):
            raise TypeError("a generator's values can be taken once: return a list to cache them")
        return Cached(
            function,
            name=name,
            key=key,
            tags=tags,
            cache=cache,
            options={"ttl_seconds": ttl_seconds, **options},
        )

    return decorate


def _is_generator(function: object) -> bool:
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


def _name_of(function: Callable[..., Any]) -> str:
    qualified = getattr(function, "__qualname__", "")
    if not qualified or "<" in qualified:
        rule = "must be defined at module or class level, or be given a name"
        raise KeyInvalid("cached function", rule, qualified or repr(type(function)))
    return f"{function.__module__}.{qualified}"
