"""Whether a call was made before. There is no durable ledger in this version, so there is nothing to replay from."""

from collections.abc import Mapping
from typing import Any

from executor.model.invocation import Invocation
from executor.model.outcome import Outcome
from executor.model.tool import Tool


class NoReplay:
    """Every call runs.

    A memory that a restart empties would promise "once" and keep the promise only until then; callers would lean on it.
    """

    async def claim(self, invocation: Invocation, tool: Tool, arguments: Mapping[str, Any]) -> Outcome | None:
        del invocation, tool, arguments
        return None
