"""A strategy for Flower (flwr 1.42) that is charged round by round: python examples/federated_flower.py LEDGER

It draws the clients itself, as the file declares, where Flower's own strategies draw a fixed number. It asks for no measurements of theirs,
which have no noise. Here they run in this process: Flower's simulation needs ray. In a ServerApp DpcliStrategy is the same.
"""

from __future__ import annotations

import sys

import numpy as np
from federated_digits import CLIENTS, FILE, SIZE, accuracy, digits, update
from flwr.app import ArrayRecord, Message, RecordDict
from flwr.serverapp.strategy import FedAvg
from flwr.supercore.task_identity import TaskIdentity

import dpcli
from dpcli.base.errors import Denied


class DpcliStrategy(FedAvg):
    """FedAvg, whose rounds come from dpcli. node: the id of a client's node, by its number. rate: what a mean update is multiplied by."""

    def __init__(self, run, nodes, rate):
        super().__init__(fraction_evaluate=0.0)
        self.run, self.nodes, self.rate = run, nodes, rate

    def configure_train(self, server_round, arrays, config, grid):
        self.turn, self.weights = self.run.round(), arrays.to_numpy_ndarrays()[0]  # Denied before anybody is asked
        record = RecordDict({"arrays": arrays, "config": config})
        return self._construct_messages(record, [self.nodes[client] for client in self.turn.clients], "train")

    def aggregate_train(self, server_round, replies):
        number = {node: client for client, node in enumerate(self.nodes)}
        answers = [
            reply for reply in replies if not reply.has_error()
        ]  # whoever drops out sends nothing; the noise is there all the same
        sent = {number[reply.metadata.src_node_id]: reply.content["arrays"].to_numpy_ndarrays()[0] for reply in answers}
        mean = self.turn.release(sent, SIZE) / self.turn.expected_clients
        return ArrayRecord([self.weights + self.rate * mean]), None


class InProcess:
    """Clients in this process, in place of Flower's grid; every tenth does not answer."""

    def __init__(self, clients):
        self.clients = clients
        TaskIdentity.run_id = TaskIdentity.task_id = TaskIdentity.node_id = 1  # which Flower's runtime sets where it runs an app

    def get_node_ids(self):
        return range(1, CLIENTS + 1)

    def send_and_receive(self, messages, *, timeout=None):
        return [self.answer(message) for message in messages if message.metadata.dst_node_id % 10]

    def answer(self, message):
        weights = message.content["arrays"].to_numpy_ndarrays()[0]
        found = update(weights, *self.clients[message.metadata.dst_node_id - 1])
        return Message(RecordDict({"arrays": ArrayRecord([found])}), reply_to=message)


def main(ledger):
    """Flower's loop until the plan or the budget ends."""
    clients, public = digits()
    run = dpcli.rounds(FILE, ledger, key="flower")
    grid = InProcess(clients)
    strategy = DpcliStrategy(run, grid.get_node_ids(), 2.0)
    last = {}
    try:
        strategy.start(
            grid,
            ArrayRecord([np.zeros(SIZE)]),
            num_rounds=run.planned,
            evaluate_fn=lambda number, arrays: last.update(weights=arrays.to_numpy_ndarrays()[0]),
        )
    except Denied as refusal:
        print(str(refusal).splitlines()[0])  # noqa: T201
    print(f"{run.taken} rounds, accuracy {accuracy(last['weights'], public):.3f}, as planned epsilon <= {run.epsilon():.4f}")  # noqa: T201
    return last["weights"]


if __name__ == "__main__":
    main(sys.argv[1])
