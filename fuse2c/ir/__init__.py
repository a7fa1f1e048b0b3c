"""The intermediate representation: types, graph, dump, verification."""
