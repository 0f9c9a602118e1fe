"""A graph network of PyTorch Geometric: python geometric.py [device]"""

import json
import sys

import torch
from torch import nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GATConv, GCNConv, SAGEConv, global_mean_pool


class GraphNetwork(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([GCNConv(8, 32), GATConv(32, 8, heads=4), SAGEConv(32, 32)])
        self.outlet = nn.Linear(32, 3)

    def forward(self, data):
        x = data.x
        for layer in self.layers:
            x = layer(x, data.edge_index).relu()
        return self.outlet(global_mean_pool(x, data.batch))


def graph(number: int) -> Data:
    generator = torch.Generator().manual_seed(number)
    nodes = 64
    return Data(
        x=torch.randn(nodes, 8, generator=generator),
        edge_index=torch.randint(0, nodes, (2, 256), generator=generator),
        y=torch.tensor([number % 3]),
    )


def run(device: str, steps: int = 6) -> dict:
    torch.manual_seed(0)
    model = GraphNetwork().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    batch = Batch.from_data_list([graph(number) for number in range(16)]).to(device)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(batch), batch.y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {"device": str(batch.x.device), "losses": losses}


if __name__ == "__main__":
    print(json.dumps(run(*sys.argv[1:] or ["mydev"])))
