"""Operations of drafts of whole blocks."""
