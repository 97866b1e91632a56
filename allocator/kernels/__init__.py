"""The kernels that the model knows by name."""

from collections.abc import Mapping
from typing import Literal, get_args, get_origin, get_type_hints

from allocator.errors import ConfigError
from allocator.kernel import Kernel
from allocator.kernels import v3_13, v5, v6, v7
from allocator.pages.policy import PagePolicy
from allocator.slabs.policy import SlabPolicy

PRESETS: dict[str, Kernel] = {
    kernel.name: kernel
    for module in (v3_13, v5, v6, v7)
    for kernel in vars(module).values()
    if isinstance(kernel, Kernel)
}


def kernel_named(name: str) -> Kernel:
    """Return a preset.

    Raises
    ------
    LookupError
        If no preset has this name; the text lists those that exist.
    """
    if name not in PRESETS:
        raise LookupError(f"kernel: unknown preset {name!r}; known are {', '.join(PRESETS)}")
    return PRESETS[name]


def kernel_from_config(config: Mapping[str, object]) -> Kernel:
    """Build a kernel from the `kernel` group: a preset, and choices that override it.

    Raises
    ------
    ConfigError
        If the preset, a choice or its value is unknown.
    """
    extra = set(config) - {"preset", "slab", "page"}
    if extra:
        raise ConfigError(f"kernel.{min(extra)}", config[min(extra)], "preset, slab or page")
    preset = config.get("preset")
    if not isinstance(preset, str) or preset not in PRESETS:
        raise ConfigError("kernel.preset", preset, f"one of {', '.join(PRESETS)}")
    kernel = PRESETS[preset]
    changes: dict[str, dict[str, object]] = {}
    for layer, policy in (("slab", SlabPolicy), ("page", PagePolicy)):
        given = config.get(layer) or {}
        if not isinstance(given, Mapping):
            raise ConfigError(f"kernel.{layer}", given, "a mapping of choices")
        changes[layer] = {
            key: _choice(f"kernel.{layer}.{key}", policy, key, value)
            for key, value in given.items()
        }
    if not any(changes.values()):
        return kernel
    return kernel.vary(kernel.name, kernel.follows, slab=changes["slab"], page=changes["page"])


def _choice(path: str, policy: type, key: str, value: object) -> object:
    """Check one override of a policy field against the field's type."""
    hints = get_type_hints(policy)
    if key not in hints:
        raise ConfigError(path, value, f"one of the fields {', '.join(hints)}")
    kind = hints[key]
    allowed = get_args(kind) if get_origin(kind) is Literal else None
    if allowed is not None:
        if value not in allowed:
            raise ConfigError(path, value, f"one of {', '.join(map(str, allowed))}")
        return value
    if get_origin(kind) is tuple:
        if not isinstance(value, list | tuple):
            raise ConfigError(path, value, "a list")
        return tuple(value)
    accepted = get_args(kind) or (kind,)
    if type(value) not in accepted:
        names = " or ".join(item.__name__ for item in accepted)
        raise ConfigError(path, value, names)
    return value
