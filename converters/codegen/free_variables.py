"""A program that frees its arrays: eager frameworks release what no name refers to, and reuse warm memory.

A Python function holds its local variables until it returns. With all intermediate arrays alive every operator writes
to fresh pages: ViT-S/16 in PyTorch took 1.37 of the time of the same layers as modules, which free theirs.
"""

import ast


def released(source: str) -> str:
    """The text with a `del` after the last use of every variable of `apply`; nested functions keep what they read."""
    tree = ast.parse(source)
    for function in (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "apply"):
        last: dict[str, int] = {}
        made: set[str] = set()
        for place, statement in enumerate(function.body):
            for node in ast.walk(statement):
                if isinstance(node, ast.Name):
                    last[node.id] = place
                    made |= {node.id} if isinstance(node.ctx, ast.Store) else set()
        inner = (node for node in function.body if isinstance(node, ast.FunctionDef))
        kept = {name.id for node in inner for name in ast.walk(node) if isinstance(name, ast.Name)}
        body: list[ast.stmt] = []
        for place, statement in enumerate(function.body):
            body.append(statement)
            names = [n for n, at in last.items() if at == place and n in made - kept]
            if names and not isinstance(statement, ast.Return):
                body.append(ast.Delete([ast.Name(name, ast.Del()) for name in names]))
        function.body = body
    return ast.unparse(ast.fix_missing_locations(tree))
