"""The vocabulary of torch's ATen ops, forward and backward, in ops of oneDNN Graph."""
