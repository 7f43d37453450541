"""The README says what the code says."""

from checks import keys, readme
from stacks.files import SAMPLES


def test_the_table_of_config_keys_is_up_to_date() -> None:
    """Every config key stands in the README with its type and default; `make readme` writes it."""
    assert readme.between(readme.README.read_text(), "keys").strip() == keys.markdown().strip()


def test_every_sample_is_in_the_readme() -> None:
    """No environment that comes with the program goes unmentioned; a user's own may."""
    text = readme.README.read_text()
    for stack in SAMPLES:
        assert (readme.ROOT / f"Pulumi.{stack}.yaml").is_file()
        assert f"| `{stack}` |" in text
