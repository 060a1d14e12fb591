"""The namespace `nx.scipy.spatial.transform`: rotations with named batch axes."""

from __future__ import annotations

import jax.scipy.spatial.transform as _module

from namedax.ops.namespaces.lifting import lift_methods as _lift_methods

__all__ = ["Rotation", "Slerp"]


@_lift_methods
class Rotation(_module.Rotation):
    """A `jax.scipy.spatial.transform.Rotation` for named arrays.

    Named axes are batch axes.

    Args:
      quat: the quaternions, with their four components along the last positional axis. Use the
        class methods (`from_rotvec`, `from_euler`, ...) to make rotations.

    Communication: none.

    >>> import jax.numpy as jnp, namedax as nx
    >>> vectors = nx.named(jnp.eye(3) * jnp.pi / 2, ["turn", None])
    >>> turns = nx.scipy.spatial.transform.Rotation.from_rotvec(vectors)
    >>> nx.positional(turns.apply(jnp.array([0.0, 1.0, 0.0])).round(3) + 0.0, ["turn", None])
    Array([[ 0.,  0.,  1.],
           [ 0.,  1.,  0.],
           [-1.,  0.,  0.]], dtype=float32)
    """


@_lift_methods
class Slerp(_module.Slerp):
    """A `jax.scipy.spatial.transform.Slerp` for named arrays, which interpolates between rotations.

    Make one with `Slerp.init(times, rotations)`. Named axes are batch axes.

    Args:
      times: the times of the rotations.
      timedelta: the differences of these times.
      rotations: the rotations at the times.
      rotvecs: the rotation vectors from each rotation to the next.

    Communication: none.

    >>> import jax.numpy as jnp, namedax as nx
    >>> transform = nx.scipy.spatial.transform
    >>> ends = transform.Rotation.from_rotvec(jnp.array([[0.0, 0.0, 0.0], [0.0, 0.0, 1.0]]))
    >>> path = transform.Slerp.init(jnp.array([0.0, 1.0]), ends)
    >>> path(nx.named(jnp.array([0.25, 0.5]), ["time"])).magnitude().named_shape["time"]
    2
    """
