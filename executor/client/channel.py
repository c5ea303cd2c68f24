"""The connection of a client, and what may be tried again.

Reads are tried again by gRPC itself, by the policy below. An Execute is never sent twice: UNAVAILABLE may come after
the service has received it, and then nobody knows whether the tool ran. What is tried again for it is the connection,
which stands before anything is sent.
"""

import asyncio
import json

import grpc

from executor.model.address import parse_address
from executor.model.errors import Unavailable
from executor.v1 import executor_pb2 as pb

SERVICE = pb.DESCRIPTOR.services_by_name["ExecutorService"].full_name
REPEATABLE = ("ReadOutput", "ListTools", "GetTool")
MAX_MESSAGE_BYTES = 16 * 1024 * 1024
RETRY_SECONDS = 1.0
"""After a refused connection; enough for three more attempts."""
_POLICY = {
    "methodConfig": [
        {
            "name": [{"service": SERVICE, "method": method} for method in REPEATABLE],
            "retryPolicy": {
                "maxAttempts": 3,
                "initialBackoff": "0.1s",
                "maxBackoff": "1s",
                "backoffMultiplier": 2,
                "retryableStatusCodes": ["UNAVAILABLE"],
            },
        }
    ]
}
_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.service_config", json.dumps(_POLICY)),
    ("grpc.enable_http_proxy", 0),  # never for a loopback address, whatever http_proxy says
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
)


def open_channel(address: str) -> grpc.aio.Channel:
    """Connects when it is first used. Raises Misconfigured for an address that is not valid or not safe."""
    return grpc.aio.insecure_channel(parse_address(address).target, options=_OPTIONS)


async def connected(channel: grpc.aio.Channel, address: str, seconds: float) -> None:
    """Returns once requests can be sent. Raises Unavailable when the time is up, or soon after a first refusal."""
    if channel.get_state(try_to_connect=True) is grpc.ChannelConnectivity.READY:
        return
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    try:
        async with asyncio.timeout_at(until) as bound:
            while (state := channel.get_state(try_to_connect=True)) is not grpc.ChannelConnectivity.READY:
                if state is grpc.ChannelConnectivity.SHUTDOWN:
                    raise Unavailable("This client is closed.")
                if state is grpc.ChannelConnectivity.TRANSIENT_FAILURE:
                    # gRPC stays in this state while it tries again, by the backoff of the options.
                    bound.reschedule(min(until, loop.time() + RETRY_SECONDS))
                await channel.wait_for_state_change(state)
    except TimeoutError:
        raise _unreachable(address) from None


def _unreachable(address: str) -> Unavailable:
    return Unavailable(f"No service answers at {address}; nothing was sent. Start one there with `executor serve`.")
