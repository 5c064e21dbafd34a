"""What trains the names model: text with slots, licensed sets, lexicon, teacher and student."""
