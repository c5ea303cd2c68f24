from executor.cli.render import size, succeeded, summary
from executor.model.errors import EffectState, ErrorCode, ErrorDetail, Violation
from executor.model.limits import Limits
from executor.model.outcome import Artifact, Isolation, Outcome, State, Stream
from executor.model.run import RefusedFile, Usage

DONE = Outcome(invocation_id="i", state=State.COMPLETED, tool="shell", tool_version="1.0.0", exit_code=0)


def lines(**fields):
    outcome = Outcome(**{"invocation_id": "i", "state": State.COMPLETED, "tool": "shell", **fields})
    return [(line.label, line.text) for line in summary(outcome)]


def test_only_a_completed_call_with_exit_code_0_succeeded():
    assert succeeded(DONE)
    for state, code in ((State.COMPLETED, 1), (State.FAILED, 0), (State.CANCELLED, None)):
        assert not succeeded(Outcome(invocation_id="i", tool="shell", state=state, exit_code=code))


def test_a_good_outcome_takes_two_lines():
    assert [line.label for line in summary(DONE)] == ["COMPLETED", "usage"]


def test_an_error_is_told_with_violations_suggestion_retry_and_effect():
    told = lines(
        state=State.FAILED,
        error=ErrorDetail(
            code=ErrorCode.OVERLOADED,
            message="No capacity.",
            retryable=True,
            retry_after_ms=1500,
            effect=EffectState.POSSIBLE,
            violations=(Violation(pointer="/x", keyword="type", message="not a number"),),
            suggestion="Call again.",
        ),
    )
    assert told[0] == ("FAILED", "shell, TRANSIENT/OVERLOADED")
    assert ("error", "No capacity.") in told
    assert ("violation", "/x: type: not a number") in told
    assert ("suggestion", "Call again.") in told
    assert ("retry", "can do no harm after 1500 ms") in told
    assert ("effect", "POSSIBLE") in told


def test_what_was_cut_names_the_command_that_gives_all_of_it():
    told = lines(stdout=Stream(text="x", total_bytes=2048, truncated=True, lossy=True, ref="out_1"))
    assert ("stdout", "2.0 KiB, truncated, not UTF-8; all of it: executor output out_1") in told


def test_artifacts_and_those_that_were_refused_are_listed():
    artifact = Artifact(path="a.csv", size_bytes=3, sha256="0", media_type="text/csv", ref="out_2")
    told = lines(artifacts=(artifact,), artifacts_refused=(RefusedFile(path="b", reason="symbolic link"),))
    assert ("artifact", "a.csv  3 bytes  text/csv  out_2") in told
    assert ("not collected", "b: symbolic link") in told


def test_usage_says_only_what_is_known():
    full = Usage(queue_ms=5, setup_ms=2, wall_ms=10, cpu_ms=8, peak_memory_bytes=3 * 1024 * 1024, peak_processes=2)
    assert lines(usage=full)[-1][1] == "10 ms, set-up 2.0 ms, queue 5.0 ms, cpu 8.0 ms, memory 3.0 MiB, processes 2"
    assert lines()[-1][1] == "0.0 ms, set-up 0.0 ms"
    assert lines(usage=Usage(wall_ms=3, total_ms=12))[-1][1] == "3.0 ms, set-up 0.0 ms, in all 12 ms"


def test_what_the_host_did_not_enforce_is_told():
    isolation = Isolation(
        backend="native", image="host", image_digest="d", network="none", limits=Limits(), degraded=("memory: not",)
    )
    assert ("degraded", "memory: not") in lines(isolation=isolation)


def test_sizes_are_told_in_their_unit():
    assert [size(n) for n in (0, 1023, 1024, 5 << 20, 3 << 30)] == [
        "0 bytes",
        "1023 bytes",
        "1.0 KiB",
        "5.0 MiB",
        "3.0 GiB",
    ]
