"""Be the draft: a game in which a visitor drafts."""
