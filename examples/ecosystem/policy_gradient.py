"""Proximal policy optimization as in stable-baselines3, on a pole to balance: python policy_gradient.py [device]

Rollouts step 16 environments on the host; the policy acts, and learns from minibatches, on the device.
"""

import json
import sys

import torch
from torch import Tensor, nn
from torch.distributions import Categorical


class Poles:
    """Poles on carts, a batch of them, as in the classic control problem."""

    def __init__(self, count: int) -> None:
        self.generator = torch.Generator().manual_seed(0)
        self.state = self.start(count)

    def start(self, count: int) -> Tensor:
        return torch.rand(count, 4, generator=self.generator) * 0.1 - 0.05

    def step(self, actions: Tensor) -> tuple[Tensor, Tensor]:
        _, speed, angle, turn = self.state.unbind(1)
        force = actions * 20.0 - 10.0
        pull = (force + 0.05 * turn**2 * angle.sin()) / 1.1
        fall = (9.8 * angle.sin() - angle.cos() * pull) / (0.5 * (4 / 3 - 0.1 * angle.cos() ** 2 / 1.1))
        push = pull - 0.05 * fall * angle.cos() / 1.1
        self.state = self.state + 0.02 * torch.stack([speed, push, turn, fall], 1)
        done = (self.state[:, 0].abs() > 2.4) | (self.state[:, 2].abs() > 0.21)
        self.state = torch.where(done[:, None], self.start(len(done)), self.state)
        return self.state, done


class Policy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2))
        self.critic = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))

    def forward(self, states: Tensor) -> tuple[Categorical, Tensor]:
        return Categorical(logits=self.actor(states)), self.critic(states).squeeze(1)


def run(device: str, updates: int = 2, steps: int = 16) -> dict:
    torch.manual_seed(0)
    policy, poles = Policy().to(device), Poles(16)
    optimizer = torch.optim.Adam(policy.parameters(), lr=3e-4)
    losses = []
    for _ in range(updates):
        states, actions, odds, values, ends = [], [], [], [], []
        for _ in range(steps):
            state = poles.state.to(device)
            with torch.no_grad():
                choice, value = policy(state)
                action = choice.probs.argmax(1)  # and not a sample, so that devices can be compared
            _, done = poles.step(action.cpu())
            for kept, new in (
                (states, state),
                (actions, action),
                (odds, choice.log_prob(action)),
                (values, value),
                (ends, done),
            ):
                kept.append(new)
        advantage, advantages = torch.zeros(16, device=device), []
        following = values[-1]
        for value, end in zip(reversed(values), reversed(ends), strict=True):
            goes_on = 1.0 - end.to(device, torch.float32)
            advantage = 1.0 + 0.99 * following * goes_on - value + 0.99 * 0.95 * goes_on * advantage
            following = value
            advantages.insert(0, advantage)
        batch = [torch.cat(part) for part in (states, actions, odds, values, advantages)]
        for rows in torch.randperm(len(batch[0])).to(device).split(64):
            state, action, odd, value, advantage = (part[rows] for part in batch)
            choice, guess = policy(state)
            ratio = (choice.log_prob(action) - odd).exp()
            gain = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
            clipped = torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
            loss = -clipped + 0.5 * (guess - value - advantage).square().mean() - 0.01 * choice.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
            optimizer.step()
            losses.append(loss.item())
    return {"device": str(next(policy.parameters()).device), "losses": losses}


if __name__ == "__main__":
    print(json.dumps(run(*sys.argv[1:] or ["mydev"])))
