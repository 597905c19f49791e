"""Plans put to use: a Python module that registers them with MSCCL++ and says which calls take which.

Each plan is verified first. What a module does stands in `emitted`; that MSCCL++ is there no other module
here may count on.
"""

from taccl.deployment.deployment import Deployment, deploy

__all__ = ["Deployment", "deploy"]
