"""Every difference between two Arrow schemas, in words."""

import pyarrow as pa


def differences(expected: pa.Schema, actual: pa.Schema) -> list[str]:
    """Every difference between two schemas, one sentence each; column order does not count."""
    found: list[str] = []
    for field in expected:
        others = [actual.field(position) for position in actual.get_all_field_indices(field.name)]
        if not others:
            found.append(f"column {field.name} is missing (expected {field.type})")
        if len(others) > 1:
            found.append(f"column {field.name} is there {len(others)} times")
        found.extend(words for other in others for words in _field_differences(field, other))
    known = set(expected.names)
    found.extend(f"column {name} is not expected" for name in actual.names if name not in known)
    return found


def _field_differences(expected: pa.Field, actual: pa.Field) -> list[str]:
    found = []
    if actual.type != expected.type:
        found.append(f"column {expected.name} is {actual.type}, expected {expected.type}")
    if actual.nullable != expected.nullable:
        words = ("allows null, expected not null", "refuses null, expected null allowed")[expected.nullable]
        found.append(f"column {expected.name} {words}")
    return found
