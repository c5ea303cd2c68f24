"""gRPC outside, the pipeline inside."""

import os

# Read by gRPC when it is imported first. Its fork handlers stop its threads around every fork of the process and have
# deadlocked and aborted children; nothing here forks in the process that speaks gRPC.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
