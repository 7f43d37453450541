"""Quantities: the cases of Kubernetes' own tests, and what its documented grammar leaves out.

The tables restate kubernetes/kubernetes staging/src/k8s.io/apimachinery/pkg/api/resource/
quantity_test.go (TestQuantityParse, read 2026-11-21) as input and exact value.
"""

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_cluster.components.kube.quantity import or_none, parse

ZEROS = ["0", "0n", "0u", "0m", "0Ki", "0k", "0Mi", "0M", "0Gi", "0G", "0Ti", "0T"]
BINARY = {
    "1Ki": 2**10, "8Ki": 8 * 2**10, "7Mi": 7 * 2**20, "6Gi": 6 * 2**30, "5Ti": 5 * 2**40,
    "4Pi": 4 * 2**50, "3Ei": 3 * 2**60, "10Ti": 10 * 2**40, "100Ti": 100 * 2**40,
    "100.035Ki": "102435.84", "0.5Mi": 2**19, "0.05Gi": "53687091.2", "0.025Ti": "27487790694.4",
}  # fmt: skip
DECIMAL = {
    "1": 1, "5n": "5e-9", "4u": "4e-6", "3m": "3e-3", "9": 9, "8k": 8000, "50k": 50000,
    "7M": "7e6", "6G": "6e9", "5T": "5e12", "40T": "4e13", "300T": "3e14", "2P": "2e15",
    "1E": "1e18", "12E": "12e18", "100.035k": 100035, "0.001": "0.001", "0.0005k": "0.5",
    "0.005": "0.005", "0.05": "0.05", "0.5": "0.5", "0.00050k": "0.5", "0.00500": "0.005",
    "0.05000": "0.05", "0.50000": "0.5", "10.035M": 10035000, "9.01": "9.01", "8.1k": 8100,
    "7.123456M": 7123456, "6.987654321G": 6987654321, "5.444T": "5444e9", "40.1T": "401e11",
    "300.2T": "3002e11", "2.5P": "25e14", "1.01E": "101e16", ".001": "0.001", ".0001k": "0.1",
    "1.": 1, "1.G": "1e9",
}  # fmt: skip
EXPONENTS = {
    "1E-3": "1e-3", "1e3": 1000, "1E6": "1e6", "1e9": "1e9", "1E12": "1e12", "1e15": "1e15",
    "1E18": "1e18", "1e14": "1e14", "1e13": "1e13", "0.5e0": "0.5", "0.5e-1": "0.05",
    "0.5e-2": "0.005", "1.2e3": 1200, "1.3E+6": "13e5", "1.40e9": "14e8", "1.53E12": "153e10",
    "1.6e15": "16e14", "1.7E18": "17e17", "5e21": "5e21",
}  # fmt: skip
ROUNDED_UP = {
    "3.001n": "4e-9", "1.1E-9": "2e-9", "0.0000000001": "1e-9", "0.0000000005": "1e-9",
    "0.00000000050": "1e-9", "0.5e-9": "1e-9", "0.9n": "1e-9", "0.00000012345": "124e-9",
    "0.00000012354": "124e-9", "0.000000000001Ki": "2e-9", "1e-300": "1e-9",
    "1e-2147483647": "1e-9",
}  # fmt: skip
CAPPED = {"9Ei": 2**63 - 1, "9223372036854775807Ki": 2**63 - 1}
VALUES = {**dict.fromkeys(ZEROS, 0), **BINARY, **DECIMAL, **EXPONENTS, **ROUNDED_UP, **CAPPED}
INVALID = ["", "1.1.M", "1+1.0M", "0.1mi", "0.1am", "aoeu", ".5i", "1i", "-3.01i", "-3.01e-",
           "1e4294967297", " 1", "1 "]  # fmt: skip
WITHOUT_A_DIGIT = [".", "-.", "m", "+", "-", "Ki"]
"""Kubernetes' scanner takes these for zero, against its own grammar; here they are mistakes."""
ALSO_INVALID = ["1K", "1ki", "1KB", "1Gb", "1 Gi", "1e", "1e1e1", "0x1", "\uff11", "1_0", "inf",
                "nan", "1e2147483648", "1e500", "9" * 500, "four", "4 GPUs"]  # fmt: skip


@pytest.mark.parametrize(("text", "value"), VALUES.items())
def test_kubernetes_own_cases(text: str, value: str | int) -> None:
    """Each case, with a minus and with a plus, as Kubernetes' test tries them too."""
    assert parse(text) == Decimal(value)
    assert parse(f"+{text}") == Decimal(value)
    assert parse(f"-{text}") == -Decimal(value)


@pytest.mark.parametrize("text", [*INVALID, *WITHOUT_A_DIGIT, *ALSO_INVALID])
def test_what_is_no_quantity_is_an_error_in_one_short_line(text: str) -> None:
    """The error repeats the text, shortened where it is long."""
    with pytest.raises(ValueError, match=r"quantity") as error:
        parse(text)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 120 or len(text) > 100
    assert or_none(text) is None


def test_numbers_as_json_has_them() -> None:
    """An integer and a float are quantities; true, null and a map are not."""
    assert (parse(4), parse(0.5), parse(1e-7)) == (4, Decimal("0.5"), Decimal("1e-7"))
    assert [or_none(value) for value in (True, None, {}, [1])] == [None] * 4
    assert or_none("500m") == Decimal("0.5")


@pytest.mark.parametrize(
    ("less", "more"), [("50m", "100m"), ("100Gi", "10000T"), ("1k", "1Ki"), ("500u", "1m")]
)
def test_quantities_compare_across_their_forms(less: str, more: str) -> None:
    """TestQuantityCmp's pairs, and decimal beside binary."""
    assert parse(less) < parse(more)


@settings(max_examples=50)
@given(
    st.integers(0, 10**6), st.integers(0, 10**6), st.sampled_from(["m", "", "k", "Mi", "G", "e2"])
)
def test_quantities_of_one_suffix_order_as_their_numbers(a: int, b: int, suffix: str) -> None:
    """More of the same unit is more."""
    assert (parse(f"{a}{suffix}") <= parse(f"{b}{suffix}")) == (a <= b)
    assert parse(f"{a}k") == parse(f"{a * 1000}")


@settings(max_examples=200)
@given(st.text(alphabet="0123456789.+-eEinumkKMGTP", max_size=12))
def test_any_text_is_a_quantity_or_an_error_in_one_line(text: str) -> None:
    """Nothing else is ever raised."""
    try:
        parse(text)
    except ValueError as error:
        assert "\n" not in str(error)  # noqa: PT017
