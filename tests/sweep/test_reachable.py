"""Addresses of clusters that do not answer are refused before anything is made."""

import socket
from collections.abc import Iterator

import pytest

from allocator.errors import ConfigError
from sweep.executors import reachable
from sweep.executors.reachable import check_reachable


@pytest.fixture
def listener() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize("address", ["local", "auto"])
def test_addresses_without_a_host_pass(address: str) -> None:
    check_reachable(address)


def test_one_that_listens_passes(listener: int) -> None:
    check_reachable(f"127.0.0.1:{listener}")


def test_one_where_nobody_listens_is_refused(listener: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        free = server.getsockname()[1]
    with pytest.raises(ConfigError, match=rf"found '127.0.0.1:{free}', expected a cluster that"):
        check_reachable(f"127.0.0.1:{free}")


@pytest.mark.parametrize("address", ["head", "head:", ":6379", "head:port", "head:65536", "head:0"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="expected local, auto, host:port or ray://host:port"):
        check_reachable(address)


def test_the_client_has_a_port_of_its_own(monkeypatch: pytest.MonkeyPatch, listener: int) -> None:
    monkeypatch.setattr(reachable, "CLIENT_PORT", listener)
    monkeypatch.setattr(reachable, "find_spec", lambda name: name)
    check_reachable("ray://127.0.0.1")


def test_the_client_needs_its_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reachable, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"ray:// needs ray\[client\]"):
        check_reachable("ray://127.0.0.1:10001")
