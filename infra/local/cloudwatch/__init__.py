"""What CloudWatch does with a stack's metrics and alarms, on this machine.

    EMF lines ───┐                         ┌── dashboards (the live page)
    what the     ├──> store ──> metric ────┤
    stack did ───┘              math       └── alarms ──> composite alarms ──> actions

Only `Pace` knows that a minute may be played in less: everything else reckons in CloudWatch's own
seconds, with the template's own periods.
"""
