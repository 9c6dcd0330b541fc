"""The harness: hurts workers, in reality and in simulation, and checks what they left behind."""
