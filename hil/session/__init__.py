"""A real node as a node under test: how each step is carried out, and how a view is put together.

:class:`hil.session.node_session.NodeSession` is one node of a run, held from its beginning to its
end;
:class:`hil.session.node.RealNode` is that node for one scenario. :mod:`hil.session.executor` is how
both reach it.
"""
