"""An existing cluster in the support matrix."""

_POOL = {"nodeSelector": {"gpus": "true"}, "gpusPerNode": 1}

DRIVERS = (
    ("any", "you, on the host", _POOL),
    ("any", "you, on the host, with `devicePlugin: dra`", {**_POOL, "devicePlugin": "dra"}),
    ("any", "you, on the host, with `devicePlugin: none`", {**_POOL, "devicePlugin": "none"}),
)
SHARING = (("", _POOL),)
PLUGIN = ""
LOCATED = ()
