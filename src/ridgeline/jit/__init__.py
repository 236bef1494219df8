"""From Python to machine code, and the compiled pieces that know no discretisation."""
