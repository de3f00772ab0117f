"""What every feature of the page uses."""
