"""Where names live, and how blocks move."""
