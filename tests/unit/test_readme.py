"""The README says what the code says."""

from checks import keys, readme


def test_the_table_of_config_keys_is_up_to_date() -> None:
    """Every config key stands in the README with its type and default; `make readme` writes it."""
    assert readme.between(readme.README.read_text(), "keys").strip() == keys.markdown().strip()


def test_every_environment_is_in_the_readme() -> None:
    """No stack file goes unmentioned."""
    text = readme.README.read_text()
    for file in readme.ROOT.glob("Pulumi.*.yaml"):
        assert f"| `{file.name.split('.')[1]}` |" in text
