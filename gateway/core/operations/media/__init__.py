"""Operations whose calls or answers are sound or pictures. Nobody reads those: `files` of a spec
says what a file holds, by which a call counts as unreadable."""
