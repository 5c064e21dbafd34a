"""Operations on texts that write none: ranks, scores, labels and tokens."""
