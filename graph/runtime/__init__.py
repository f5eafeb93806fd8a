"""What a run needs: arrays, tensors, layouts, arguments, engines, caches, profiles."""
