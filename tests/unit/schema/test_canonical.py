import json

from hypothesis import given
from hypothesis import strategies as st

from executor.schema.canonical import canonical_json

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_canonical_text_reads_back_as_the_same_value(value):
    assert json.loads(canonical_json(value)) == value


def test_keys_are_sorted_and_whole_floats_are_whole_numbers():
    assert canonical_json({"b": 1.0, "a": [-0.0, 1.5, True, "é"]}) == '{"a":[0,1.5,true,"é"],"b":1}'
