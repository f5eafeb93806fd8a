"""What runs: steps of a program, regions, weights as the library wants them, memory that is used again."""
