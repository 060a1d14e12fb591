"""The pictures of README and the site are what their program draws."""

import pytest

from tools import pictures


@pytest.mark.full
def test_the_picture_of_readme_is_what_is_drawn_now():
    assert pictures.picture() == pictures.PICTURE.read_text(encoding="utf-8")
