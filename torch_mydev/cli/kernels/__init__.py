"""The actions of ``mydev kernels`` that want kernels registered with PyTorch."""
