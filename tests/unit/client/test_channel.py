import json

import pytest

from executor.client.channel import _OPTIONS as OPTIONS
from executor.client.channel import REPEATABLE, SERVICE, open_channel
from executor.model.errors import Misconfigured
from executor.v1 import executor_pb2 as pb


def test_what_may_change_the_world_is_never_sent_twice() -> None:
    methods = set(pb.DESCRIPTOR.services_by_name["ExecutorService"].methods_by_name)
    assert methods - set(REPEATABLE) == {"Execute", "ExecuteStream", "CancelInvocation"}


def test_the_policy_repeats_reads_on_unavailable_alone_and_not_for_ever() -> None:
    (config,) = json.loads(dict(OPTIONS)["grpc.service_config"])["methodConfig"]
    assert {(name["service"], name["method"]) for name in config["name"]} == {(SERVICE, m) for m in REPEATABLE}
    assert config["retryPolicy"]["retryableStatusCodes"] == ["UNAVAILABLE"]
    assert config["retryPolicy"]["maxAttempts"] <= 5


def test_an_address_beyond_this_machine_is_refused_by_the_client_too() -> None:
    with pytest.raises(Misconfigured, match="ssh -L"):
        open_channel("example.org:50051")
