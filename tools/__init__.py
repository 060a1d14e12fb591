"""Programs for who works on namedax: `stubs`, `site_check` with `browser`, `pictures`, `release_check`; the Makefile says when they run."""
