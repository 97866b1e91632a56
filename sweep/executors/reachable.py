"""Whether a cluster's address answers, asked before anything is made.

Ray itself tries for a minute and more, with a warning a second.
"""

import socket
from importlib.util import find_spec

from allocator.errors import ConfigError

PATIENCE = 5.0
"""Seconds until an address counts as dead."""

CLIENT = "ray://"
CLIENT_PORT = 10001
"""Port of the Ray client's server, where none is named."""

_NOT_ADDRESSES = ("local", "auto")


def check_reachable(address: str) -> None:
    """Connect to the cluster, once.

    Parameters
    ----------
    address
        As in `executor.address`; `local` and `auto` name no host and pass.

    Raises
    ------
    ConfigError
        If it is no address, nobody listens there, or `ray://` needs a package that is missing.
    """
    if address in _NOT_ADDRESSES:
        return
    if address.startswith(CLIENT) and find_spec("grpc") is None:
        raise ConfigError("executor.address", address, "host:port: ray:// needs ray[client]")
    host, port = _host_and_port(address)
    try:
        socket.create_connection((host, port), PATIENCE).close()
    except OSError as error:
        why = error.strerror or str(error)
        raise ConfigError(
            "executor.address", address, f"a cluster that answers within {PATIENCE:g} s ({why})"
        ) from error


def _host_and_port(address: str) -> tuple[str, int]:
    """Take an address apart; an IPv6 host may stand in brackets."""
    bare = address.removeprefix(CLIENT)
    host, colon, port = bare.rpartition(":")
    if not colon and address.startswith(CLIENT):
        host, port = bare, str(CLIENT_PORT)
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise ConfigError("executor.address", address, "local, auto, host:port or ray://host:port")
    return host.strip("[]"), int(port)
