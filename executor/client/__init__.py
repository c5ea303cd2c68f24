"""The typed client: `ExecutorClient`, and the values that it takes and gives."""

import os

# Read by gRPC when it is imported first; see executor/ingress/__init__.py. A program that has imported gRPC before us
# keeps its own choice.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

from executor.client.client import ExecutorClient
from executor.client.errors import DeadlinePassed
from executor.codec import MalformedRequest, ToolOffer
from executor.model.invocation import InputFile
from executor.model.outcome import Outcome, State

__all__ = [
    "DeadlinePassed",
    "ExecutorClient",
    "InputFile",
    "MalformedRequest",
    "Outcome",
    "State",
    "ToolOffer",
]
