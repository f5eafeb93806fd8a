"""Makes torchvision importable, and transformers with it, where it was built for another device than torch.

What fails there is the registration of shape rules of its compiled detection ops, which no test needs.
"""

import sys
import types

sys.modules.setdefault("torchvision._meta_registrations", types.ModuleType("torchvision._meta_registrations"))
