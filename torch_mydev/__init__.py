"""torch_mydev"""
