"""The gRPC server: addresses, health, reflection, limits of messages, and an orderly end."""

from collections.abc import Sequence
from typing import Any, Self

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc

from executor.catalogue.catalogue import Catalogue
from executor.ingress.messages import ReadsInside
from executor.ingress.needs import Executes, OutputReader, Unavailability
from executor.ingress.registry import Registry
from executor.ingress.service import HEARTBEAT_SECONDS, ExecutorService
from executor.ingress.sockets import only_ours, remove
from executor.model.address import Address, TcpAddress, UnixAddress, parse_address
from executor.model.errors import Unavailable
from executor.telemetry.logs import logger
from executor.v1 import executor_pb2 as pb
from executor.v1 import executor_pb2_grpc as rpc

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
"""A request that is larger ends as RESOURCE_EXHAUSTED, by the length in its header, before its bytes are kept."""
ANSWER_SECONDS = 2.0
"""For outcomes to reach their callers once everything has ended."""
SERVICE = pb.DESCRIPTOR.services_by_name["ExecutorService"].full_name

_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.so_reuseport", 0),  # or a second server would share the port in silence
)
_log = logger(__name__)


class Server:
    """`async with` serves from the start of the block to its end, where it stops without grace."""

    def __init__(  # noqa: PLR0913 - what a server is made of
        self,
        *,
        pipeline: Executes,
        catalogue: Catalogue,
        outputs: OutputReader,
        addresses: Sequence[str],
        unavailable: Unavailability = lambda _: None,
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
    ) -> None:
        """Raises Misconfigured for an address that is not valid or not safe."""
        self._wanted = tuple(map(parse_address, addresses))
        self._registry = Registry(pipeline)
        self._service = ExecutorService(
            registry=self._registry,
            catalogue=catalogue,
            outputs=outputs,
            unavailable=unavailable,
            heartbeat_seconds=heartbeat_seconds,
        )
        self._health = health.aio.HealthServicer()
        self._server: grpc.aio.Server | None = None
        self._bound: list[Address] = []
        self._inodes: dict[UnixAddress, int] = {}

    @property
    def addresses(self) -> tuple[str, ...]:
        """Where it listens, with the ports that the kernel chose."""
        return tuple(address.target for address in self._bound)

    @property
    def running_count(self) -> int:
        return self._registry.count

    async def start(self) -> None:
        """Raises Unavailable where an address is taken, Misconfigured where it cannot be used."""
        self._server = server = grpc.aio.server(options=_OPTIONS)
        reading: Any = ReadsInside(server)
        names = (SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME)
        rpc.add_ExecutorServiceServicer_to_server(self._service, reading)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, reading)
        reflection_pb2_grpc.add_ServerReflectionServicer_to_server(reflection.aio.ReflectionServicer(names), reading)
        try:
            for address in self._wanted:
                self._bound.append(self._bind(server, address))
            await server.start()
        except BaseException:  # also when cancelled: a half-started server would keep its socket
            await self.stop()
            raise
        for name in ("", SERVICE):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)
        _log.info("listening", addresses=list(self.addresses))

    async def drain(self, grace_seconds: float) -> None:
        """Health says NOT_SERVING, new calls are refused, running ones may end for so long and are then cancelled.

        Serves health, cancellation and reads to the end. Idempotent.
        """
        await self._health.enter_graceful_shutdown()
        await self._registry.drain(grace_seconds)

    async def stop(self, grace_seconds: float = 0.0) -> None:
        """Drains and closes. Nothing of it is left when this returns. Idempotent."""
        if self._server is None:
            return
        await self.drain(grace_seconds)
        await self._server.stop(ANSWER_SECONDS)
        self._server = None
        for address, inode in self._inodes.items():
            remove(address.path, inode)
        _log.info("stopped")

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def _bind(self, server: grpc.aio.Server, address: Address) -> Address:
        if isinstance(address, TcpAddress):
            return TcpAddress(address.host, _listen(server, address))
        with only_ours(address.path):
            _listen(server, address)
        self._inodes[address] = address.path.lstat().st_ino
        return address


def _listen(server: grpc.aio.Server, address: Address) -> int:
    try:
        return server.add_insecure_port(address.target)
    except RuntimeError as error:
        raise Unavailable(f"Cannot listen at {address.target}: is another program there? ({error})") from None
