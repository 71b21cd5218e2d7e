"""Books, in the ways that Django relates them."""
from django.db import models
from django_mongodb_backend.fields import ArrayField, EmbeddedModelField
from django_mongodb_backend.managers import MongoManager
from django_mongodb_backend.models import EmbeddedModel


class Author(models.Model):
    name = models.CharField(max_length=100, unique=True)
    born = models.IntegerField(null=True)

    objects = models.Manager()
    pipelines = MongoManager()

    class Meta:
        indexes = [models.Index(fields=["-born", "name"], name="born_name")]


class Award(EmbeddedModel):
    name = models.CharField(max_length=100)
    year = models.IntegerField()


class Book(models.Model):
    title = models.CharField(max_length=200)
    author = models.ForeignKey(Author, models.CASCADE, related_name="books")
    readers = models.ManyToManyField(Author, related_name="reads")
    price = models.DecimalField(max_digits=8, decimal_places=2, null=True)
    published = models.DateTimeField(null=True)
    tags = ArrayField(models.CharField(max_length=20), default=list)
    award = EmbeddedModelField(Award, null=True)
    extra = models.JSONField(default=dict)
