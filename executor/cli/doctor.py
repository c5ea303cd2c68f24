"""`executor doctor`: what this host can enforce, found out by trying."""

from dataclasses import asdict

from executor.app import native_settings, prepare_state_dir
from executor.cli import console
from executor.cli.exits import Exit
from executor.sandbox.native.facilities import Facility, survey
from executor.settings import Settings


async def doctor(settings: Settings, *, as_json: bool) -> Exit:
    prepare_state_dir(settings.state_dir)
    return show(await survey(native_settings(settings)), as_json=as_json)


def show(found: list[Facility], *, as_json: bool) -> Exit:
    """Exit.OK only where the defaults can be enforced in full."""
    lacking = [facility.name for facility in found if facility.required and facility.status != "ok"]
    if as_json:
        console.out_json({"enforceable": not lacking, "facilities": [asdict(facility) for facility in found]})
    else:
        rows = [(facility.name, facility.status, facility.detail, facility.remedy) for facility in found]
        console.table(("FACILITY", "STATUS", "DETAIL", "WHAT TO DO"), rows)
        console.note(
            f"This host cannot enforce the defaults in full: {', '.join(lacking)}."
            if lacking
            else "This host can enforce the defaults in full."
        )
    return Exit.NOT_OK if lacking else Exit.OK
