"""Race: several methods on one prompt and one clock."""
