"""Whether a history of transactions is one of strict snapshot isolation, after the manner of Elle.

A history is a list of transactions, each with what it did, when it began and ended by a clock that all share, and how:

    Transaction(began, ended, "committed" | "aborted" | "unknown", [("append", key, value), ("read", key, (1, 2)),
                ("write", key, value), ("get", key, value or None)])

Values are unique. Of a list every read tells the order of the values up to there; of a register a write tells it, as each
transaction reads a register before it writes it. From that follow the dependencies: who wrote the version after mine (ww), who
read mine (wr), who wrote the version after the one I read (rw), and who began after I had ended (rt). Snapshot isolation
permits only cycles with two rw edges in a row (write skew), so there must be none in (ww + wr + rt) composed with rw at most once
(Cerone and Gotsman, "Analysing snapshot isolation", 2016). The order in time makes it strict: a transaction sees everything that was
acknowledged before it began.
"""
from collections import namedtuple

Transaction = namedtuple("Transaction", "began ended how operations")

#: The version of a key before the first write.
NOTHING = None


class Check:
    """What is wrong with a history, in words. `final` has the lists as they are afterwards, by key, and `registers` the registers."""

    def __init__(self, history, final, registers):
        self.history, self.wrong = history, []
        #: The versions of each key, in order, and the transaction that wrote each.
        self.order, self.writer = {}, {}
        self.find_writers()
        self.order_lists(final)
        self.order_registers(registers)
        self.happened = [at for at, transaction in enumerate(history) if self.has_happened(at, transaction)]
        self.check_reads()
        self.check_cycles()

    def find_writers(self):
        for at, transaction in enumerate(self.history):
            for kind, key, value in transaction.operations:
                if kind in ("append", "write"):
                    self.writer[key, value] = at

    def order_lists(self, final):
        for key, values in final.items():
            if len(set(values)) != len(values):
                self.wrong.append(f"{key}: a value is twice in {values}")
            self.order[key] = list(values)
            for value in values:
                writer = self.writer.get((key, value))
                if writer is None:
                    self.wrong.append(f"{key}: {value} was never written")
                elif self.history[writer].how == "aborted":
                    self.wrong.append(f"{key}: {value} is of a transaction that was aborted")
        for transaction in self.history:
            for kind, key, value in transaction.operations:
                if kind == "append" and transaction.how == "committed" and value not in final.get(key, ()):
                    self.wrong.append(f"{key}: {value} was committed, and is lost")

    def order_registers(self, final):
        """A register's versions follow each other as transactions have read and written them, up to the one that it has afterwards."""
        next_of, seen = {}, set(final.items())
        for key, value in final.items():
            writer = self.writer.get((key, value))
            if writer is None:
                self.wrong.append(f"{key}: {value} was never written")
            elif self.history[writer].how == "aborted":
                self.wrong.append(f"{key}: {value} is of a transaction that was aborted")
        for transaction in self.history:
            for kind, key, value in transaction.operations:
                if kind == "get" and value is not NOTHING:
                    seen.add((key, value))
        for transaction in self.history:
            if transaction.how == "aborted":
                continue
            last = {}
            for kind, key, value in transaction.operations:
                if kind == "get":
                    last[key] = value
                elif kind == "write":
                    # Of one that may or may not have happened: only if somebody has read it, or it is there.
                    if transaction.how == "committed" or (key, value) in seen:
                        before = last[key]
                        if (key, before) in next_of:
                            self.wrong.append(f"{key}: both {next_of[key, before]} and {value} replaced {before}: a lost update")
                        next_of[key, before] = value
                    last[key] = value
        for key in {key for key, _ in next_of}:
            versions, value = [], NOTHING
            while (key, value) in next_of:
                value = next_of.pop((key, value))
                versions.append(value)
            self.order[key] = versions
            if final.get(key) != value:
                self.wrong.append(f"{key}: {value} was committed last, and {final.get(key)} is there: it is lost")
        for key, before in next_of:
            self.wrong.append(f"{key}: what was read as {before} has no place in the order of versions")

    def has_happened(self, at, transaction):
        """It was committed, or what it wrote is there although nobody said so."""
        if transaction.how != "unknown":
            return transaction.how == "committed"
        return any(kind in ("append", "write") and value in self.order.get(key, ())
                   for kind, key, value in transaction.operations)

    def check_reads(self):
        """Each read is of a version that there was, between whole transactions, and has what the transaction itself wrote."""
        for at in self.happened:
            own, first = {}, {}
            for kind, key, value in self.history[at].operations:
                if kind == "append":
                    own.setdefault(key, []).append(value)
                elif kind == "write":
                    own[key] = value
                elif kind == "get":
                    if key in own:
                        if value != own[key]:
                            self.wrong.append(f"{key}: read {value} after writing {own[key]}")
                    elif value != first.setdefault(key, value):
                        self.wrong.append(f"{key}: read {first[key]}, then {value}, in one transaction")
                    elif value is not NOTHING and value not in self.order.get(key, ()):
                        self.wrong.append(f"{key}: {value} was read, and never committed")
                else:
                    mine = own.get(key, [])
                    before = list(value[:len(value) - len(mine)])
                    if list(value[len(before):]) != mine:
                        self.wrong.append(f"{key}: read {value[-5:]} after appending {mine}")
                    elif before != first.setdefault(key, before):
                        self.wrong.append(f"{key}: read two different lists in one transaction")
                    elif before != self.order.get(key, [])[:len(before)]:
                        self.wrong.append(f"{key}: {before[-5:]} is not how the list begins")
                    elif before and len(before) < len(self.order[key]):
                        last, after = (self.writer.get((key, each)) for each in (before[-1], self.order[key][len(before)]))
                        if last == after:
                            self.wrong.append(f"{key}: {before[-1]} was read without what its transaction appended next")

    def edges(self):
        """Dependencies: (from, to), and those of the kind rw by themselves."""
        first, then = set(), set()
        place = {(key, value): i for key, values in self.order.items() for i, value in enumerate(values)}
        for key, values in self.order.items():
            for before, after in zip(values, values[1:]):
                first.add((self.writer.get((key, before)), self.writer.get((key, after))))
        for at in self.happened:
            own = set()
            for kind, key, value in self.history[at].operations:
                if kind in ("append", "write"):
                    own.add(key)
                    continue
                if key in own:
                    continue
                read = (value[-1] if value else NOTHING) if kind == "read" else value
                where = -1 if read is NOTHING else place.get((key, read))
                if where is None:
                    continue
                if where >= 0:
                    first.add((self.writer[key, read], at))
                if where + 1 < len(self.order.get(key, ())):
                    then.add((at, self.writer.get((key, self.order[key][where + 1]))))
        # Time is a chain of nodes, one for each end, so that there are not edges between all and all.
        events = sorted([(self.history[at].ended, 1, at) for at in self.happened if self.history[at].how == "committed"]
                        + [(self.history[at].began, 0, at) for at in self.happened])
        now = None
        for _, is_end, at in events:
            if is_end:
                following = ("time", at)
                first.add((at, following))
                if now is not None:
                    first.add((now, following))
                now = following
            elif now is not None:
                first.add((now, at))
        clean = lambda edges: {(a, b) for a, b in edges if a is not None and b is not None and a != b}
        return clean(first), clean(then)

    def check_cycles(self):
        first, then = self.edges()
        after = {}
        for a, b in then:
            after.setdefault(a, []).append(b)
        graph = {}
        for a, b in first:
            graph.setdefault(a, set()).add(b)
            for c in after.get(b, ()):
                graph.setdefault(a, set()).add(c)
        self.dependencies = sum(map(len, graph.values()))
        for a, following in graph.items():
            if a in following:
                self.wrong.append(f"a transaction misses what it depends on: {self.show(a)}")
        for cycle in components(graph):
            shown = [each for each in cycle if isinstance(each, int)]
            self.wrong.append(f"a cycle of {len(shown)} transactions: " + "; ".join(map(self.show, shown[:4])))

    def show(self, at):
        return str(self.history[at])[:400]


def components(graph):
    """The strongly connected components of more than one node (Tarjan's, without recursion)."""
    number, low, stack, on_stack, found = {}, {}, [], set(), []
    for root in graph:
        if root in number:
            continue
        number[root] = low[root] = len(number)
        stack.append(root)
        on_stack.add(root)
        work = [(root, iter(graph.get(root, ())))]
        while work:
            node, following = work[-1]
            for each in following:
                if each not in number:
                    number[each] = low[each] = len(number)
                    stack.append(each)
                    on_stack.add(each)
                    work.append((each, iter(graph.get(each, ()))))
                    break
                if each in on_stack:
                    low[node] = min(low[node], number[each])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == number[node]:
                    component = []
                    while not component or component[-1] != node:
                        component.append(stack.pop())
                        on_stack.discard(component[-1])
                    if len(component) > 1:
                        found.append(component)
    return found
