"""How much to draft and to check, where that is 'auto': a controller around a method, priced by
what passes cost here."""
