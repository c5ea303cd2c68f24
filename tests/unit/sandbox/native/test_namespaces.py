"""A network serves the next sandbox only where the last one left no trace in it. Each test has a thread of its own,
because a thread has its own network, and its programs are born into that.
"""

import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from executor.sandbox.native.namespaces import KEPT_NETWORKS, Network, Networks

pytestmark = pytest.mark.root

UNTOUCHED = {
    "nothing": "",
    "a socket that was closed": "socket.socket(); socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close()",
    "a look at the interfaces": "print(socket.if_nameindex(), open('/proc/net/dev').read())",
    "a port that nobody knocked at": "s = socket.socket(); s.bind(('127.0.0.1', 8080)); s.listen()",
    "a pair of unix sockets": "a, b = socket.socketpair(); a.send(b'x'); b.recv(1)",
    "a name that went with its process": "s = socket.socket(socket.AF_UNIX); s.bind(chr(0) + 'name'); s.listen()",
}
TRACES = {
    "a packet": "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b'x', ('127.0.0.1', 9))",
    "a packet of IPv6": "s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.sendto(b'x', ('::1', 9))",
    "a port that was knocked at": "attempt(socket.socket().connect, ('127.0.0.1', 9))",
    "a conversation": (
        "s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(); c = socket.create_connection(s.getsockname());"
        "t, _ = s.accept(); c.send(b'x'); t.recv(1)"
    ),
    "an unreachable address": "attempt(socket.socket().connect, ('192.0.2.1', 80))",
    "an unreachable address of IPv6": "attempt(socket.socket(socket.AF_INET6).connect, ('2001:db8::1', 80))",
    "a packet to an unreachable address": (
        "attempt(socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto, b'x', ('192.0.2.1', 53))"
    ),
}
PROGRAM = """
import socket

def attempt(call, *arguments):
    try:
        call(*arguments)
    except OSError as error:
        print(error)
    else:
        raise SystemExit("the network is not empty")

{}
"""


@dataclass
class House:
    """Networks, and the home of whoever asks for them."""

    networks: Networks
    home: int

    @property
    def kept(self) -> int:
        return len(self.networks._kept)


@contextlib.contextmanager
def house() -> Iterator[House]:
    networks = Networks()
    try:
        yield House(networks, here())
    finally:
        for network in networks._kept:
            network.close()
        os.close(networks._home)


def here() -> int:
    return Path("/proc/thread-self/ns/net").stat().st_ino


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.fixture
def apart() -> Callable[[Callable[[House], None]], None]:
    """Calls in a thread of its own, which ends with its networks."""

    def call(work: Callable[[House], None]) -> None:
        failed: list[BaseException] = []

        def run() -> None:
            try:
                with house() as one:
                    work(one)
            except BaseException as error:  # noqa: BLE001 - whatever it is, it is raised again below
                failed.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        if failed:
            raise failed[0]

    return call


def lived_in(house: House, source: str) -> tuple[Network, int]:
    """A network in which a program ran to its end, and its number; the caller is at home again."""
    network = house.networks.enter()
    number = here()
    try:
        subprocess.run([sys.executable, "-I", "-c", PROGRAM.format(source)], check=True, capture_output=True)
    finally:
        house.networks.home()
    return network, number


def test_the_network_of_a_sandbox_is_neither_the_hosts_nor_the_launchers(apart):
    hosts = here()

    def work(house: House) -> None:
        network, number = lived_in(house, "")
        assert here() == house.home
        assert len({hosts, house.home, number}) == 3
        house.networks.give_back(network)
        assert here() == house.home

    apart(work)
    assert here() == hosts


@pytest.mark.parametrize("source", UNTOUCHED.values(), ids=UNTOUCHED)
def test_a_network_without_a_trace_is_given_again(apart, source: str):
    def work(house: House) -> None:
        network, number = lived_in(house, source)
        house.networks.give_back(network)
        assert house.kept == 1
        again, number_again = lived_in(house, "")
        assert (again, number_again) == (network, number)
        house.networks.give_back(again)

    apart(work)


@pytest.mark.parametrize("source", TRACES.values(), ids=TRACES)
def test_a_network_with_a_trace_is_not_given_again(apart, source: str):
    def work(house: House) -> None:
        network, _ = lived_in(house, source)
        house.networks.give_back(network)
        assert house.kept == 0
        another, another_number = lived_in(house, "")
        assert another is not network
        assert Path(f"/proc/self/fd/{another._namespace}").stat().st_ino == another_number
        house.networks.give_back(another)

    apart(work)


@pytest.mark.parametrize("name", ["\0abstract", "", None], ids=["abstract", "unnamed, listening", "unbound"])
def test_a_network_with_a_socket_that_outlives_its_process_is_not_given_again(apart, name: str | None):
    def work(house: House) -> None:
        network = house.networks.enter()
        left = socket.socket(socket.AF_UNIX)
        if name is not None:
            left.bind(name)
        house.networks.home()
        house.networks.give_back(network)
        left.close()
        assert house.kept == 0

    apart(work)


def test_each_of_two_that_live_has_a_network_of_its_own(apart):
    def work(house: House) -> None:
        one, number = lived_in(house, "")
        other, other_number = lived_in(house, "")
        assert number != other_number
        house.networks.give_back(one)
        house.networks.give_back(other)
        assert house.kept == 2

    apart(work)


def test_no_more_networks_are_kept_than_the_bound_and_the_rest_is_closed(apart):
    def work(house: House) -> None:
        before = descriptors()
        networks = []
        for _ in range(KEPT_NETWORKS + 2):
            networks.append(house.networks.enter())
            house.networks.home()
        for network in networks:
            house.networks.give_back(network)
        assert house.kept == KEPT_NETWORKS
        assert descriptors() == before + KEPT_NETWORKS

    apart(work)


def test_a_descriptor_of_a_network_is_not_inherited(apart):
    def work(house: House) -> None:
        network = house.networks.enter()
        house.networks.home()
        assert not os.get_inheritable(network._namespace)
        assert not os.get_inheritable(house.networks._home)
        house.networks.give_back(network)

    apart(work)
