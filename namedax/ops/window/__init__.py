"""Operations that look at neighbours along an axis."""
