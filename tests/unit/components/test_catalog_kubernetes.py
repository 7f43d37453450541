"""Kubernetes names, label syntax and quantities."""

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_cluster.components.catalog import kubernetes

NAMES = st.text(alphabet=string.ascii_letters + "019-_./ é\n", max_size=70)


def good_name(name: str) -> bool:
    """What apimachinery says of label values and of the name part of keys, in words."""
    allowed = set(string.ascii_letters + string.digits + "-_.")
    ends = set(string.ascii_letters + string.digits)
    return 0 < len(name) <= 63 and set(name) <= allowed and {name[0], name[-1]} <= ends


def good_subdomain(name: str) -> bool:
    """What apimachinery says of DNS-1123 subdomains, in words."""
    ends = set(string.ascii_lowercase + string.digits)
    return len(name) <= 253 and all(
        part and set(part) <= ends | {"-"} and {part[0], part[-1]} <= ends
        for part in name.split(".")
    )


@settings(max_examples=60)
@given(NAMES)
def test_label_values_follow_apimachinery(value: str) -> None:
    """A value is good when empty, or when it is a name of at most 63 characters."""
    reason = kubernetes.invalid_label_value(value)
    assert (reason is None) == (value == "" or good_name(value))
    assert reason is None or "\n" not in reason


@settings(max_examples=60)
@given(NAMES)
def test_label_keys_follow_apimachinery(key: str) -> None:
    """A key is a name, or a DNS subdomain, one slash and a name."""
    reason = kubernetes.invalid_label_key(key)
    *prefix, name = key.split("/")
    good = good_name(name) and (not prefix or (len(prefix) == 1 and good_subdomain(prefix[0])))
    assert (reason is None) == good


@settings(max_examples=60)
@given(st.text(alphabet=string.ascii_lowercase + "019-.A_", max_size=70))
def test_dns_names_follow_rfc_1123(name: str) -> None:
    """Labels have no dots and 63 characters at most; subdomains are labels between dots."""
    assert (kubernetes.invalid_dns_subdomain(name) is None) == good_subdomain(name)
    is_label = len(name) <= 63 and "." not in name and good_subdomain(name)
    assert (kubernetes.invalid_dns_label(name) is None) == is_label


def test_the_longest_names_are_good() -> None:
    """63 characters of a label value, a name or a DNS label pass, 64 do not; 253 of a subdomain."""
    for check, what in (
        (kubernetes.invalid_label_value, "a value of 64"),
        (kubernetes.invalid_dns_label, "64"),
    ):
        assert check("a" * 63) is None
        assert check("a" * 64) == f"has {what} characters, at most 63 are allowed"
    assert kubernetes.invalid_dns_subdomain("a" * 253) is None
    assert kubernetes.invalid_dns_subdomain("a" * 254) is not None


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("role", None),
        ("example.com/role", None),
        ("k" * 63, None),
        ("k" * 64, "has a name of 64 characters, at most 63 are allowed"),
        ("", "is empty; give one such as team"),
        ("/role", "has an empty prefix before its slash"),
        ("example.com/", "has no name after its slash"),
        ("role\n", "must be letters, digits, '-', '_' and '.', with a letter or digit at each end"),
        (
            "Example.com/role",
            "has a prefix that must be lowercase letters, digits, hyphens and dots, "
            "with a letter or digit at both ends of each part",
        ),
        ("a" * 254 + "/b", "has a prefix that has 254 characters, at most 253 are allowed"),
    ],
)
def test_a_bad_label_key_has_its_reason(key: str, reason: str | None) -> None:
    """The reason says which part of the key is wrong, and what is allowed."""
    assert kubernetes.invalid_label_key(key) == reason


def test_the_catalogues_own_keys_are_label_keys() -> None:
    """Every label, resource and taint key among the constants is valid; paths are none."""
    constants = {name: value for name, value in vars(kubernetes).items() if name.isupper()}
    names = [
        value
        for name, value in constants.items()
        if isinstance(value, str)
        and not name.startswith("_")
        and not name.endswith(("_PREFIX", "_SUFFIX"))
        and not value.startswith("/")
    ]
    assert len(names) > 30
    assert [name for name in names if kubernetes.invalid_label_key(name)] == []
    assert kubernetes.invalid_label_key(f"{kubernetes.MIG_RESOURCE_PREFIX}1g.5gb") is None


def test_removed_things_have_replacements() -> None:
    """The alpha GPU resource and the beta DaemonSet each lead to what took their place."""
    gone = kubernetes.REMOVED_RESOURCES
    assert gone["alpha.kubernetes.io/nvidia-gpu"] == ("nvidia.com/gpu", "1.11")
    apis = kubernetes.REMOVED_API_VERSIONS
    assert apis["extensions/v1beta1", "DaemonSet"] == ("apps/v1", "1.16")
    for instead, _ in apis.values():
        assert instead not in {version for version, _ in apis}
