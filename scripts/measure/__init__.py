"""Measurements that are repeated: python -m scripts.measure NAME

steps     the milliseconds of a step in passes of target and draft, and beside them
passes    the milliseconds of a forward pass of the embedded pair by rows
ablation  what each piece of the adaptive policy earns
"""
