"""`torch.compile(model, backend="onednn_graph")`: ATen graphs of torch as programs of oneDNN Graph's ops."""
